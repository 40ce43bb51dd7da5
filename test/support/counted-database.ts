// A test counts the statements that a part sends to the database, the begin and end of a transaction among them.
import type { EntityManager } from 'typeorm'
import type { Database } from '../../gateway/store/database.ts'

export const countedDatabase = (database: Database) => {
  let statements = 0
  const counted = (manager: EntityManager): EntityManager =>
    Object.create(manager, {
      query: {
        value: (...given: Parameters<EntityManager['query']>) => {
          statements += 1
          return manager.query(...given)
        }
      }
    })
  const of: Database = {
    ...database,
    read: work => database.read(manager => work(counted(manager))),
    write: work => {
      statements += 2
      return database.write(manager => work(counted(manager)))
    }
  }
  return { database: of, statements: () => statements }
}

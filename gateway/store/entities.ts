// Describes to TypeORM the tables of migrations/ that are used without SQL of our own.
import { EntitySchema, type EntitySchemaColumnOptions } from 'typeorm'

const ID: EntitySchemaColumnOptions = { type: Number, primary: true, generated: true }

const key = (name: string): EntitySchemaColumnOptions => ({ type: Number, name, primary: true })

export interface AreaRow {
  id: number
  name: string
}

export const Area = new EntitySchema<AreaRow>({
  name: 'Area',
  tableName: 'areas',
  columns: { id: ID, name: { type: 'text' } }
})

export const ProfileTable = new EntitySchema<{ id: number; name: string }>({
  name: 'Profile',
  tableName: 'profiles',
  columns: { id: ID, name: { type: 'text', unique: true } }
})

export const Person = new EntitySchema<{ id: number; disabled: boolean; mainAreaId: number | null }>({
  name: 'Person',
  tableName: 'users',
  columns: {
    id: ID,
    disabled: { type: Boolean, default: false },
    mainAreaId: { type: Number, name: 'main_area_id', nullable: true }
  }
})

export const PersonProfile = new EntitySchema<{ userId: number; profileId: number }>({
  name: 'PersonProfile',
  tableName: 'user_profiles',
  columns: { userId: key('user_id'), profileId: key('profile_id') }
})

export const PersonArea = new EntitySchema<{ userId: number; areaId: number }>({
  name: 'PersonArea',
  tableName: 'user_areas',
  columns: { userId: key('user_id'), areaId: key('area_id') }
})

export const entities = [Area, ProfileTable, Person, PersonProfile, PersonArea]

// Answers why a login at the directory failed; throws if it did not.
import { DirectoryFailure } from '../../gateway/directory/failure.ts'

export const failureOf = async (login: Promise<unknown>): Promise<DirectoryFailure> => {
  const error = await login.then(
    () => new Error('the login succeeded'),
    (reason: unknown) => reason
  )
  if (error instanceof DirectoryFailure) return error
  throw error
}

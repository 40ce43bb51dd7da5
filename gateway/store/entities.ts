// Describes the tables of migrations/ to TypeORM.
import { EntitySchema } from 'typeorm'
import type { Provider } from '../identity.ts'

export interface AreaRow {
  id: number
  name: string
}

export const Area = new EntitySchema<AreaRow>({
  name: 'Area',
  tableName: 'areas',
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: 'text' } }
})

export const ProfileTable = new EntitySchema<{ id: number; name: string }>({
  name: 'Profile',
  tableName: 'profiles',
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: 'text', unique: true } }
})

interface PersonRow {
  id: number
  name: string
  email: string
  username: string
  provider: Provider
  accessVersion: number
  lowestAcceptedVersion: number
  disabled: boolean
  mainAreaId: number | null
  createdAt: Date
  lastLoginAt: Date | null
}

export const Person = new EntitySchema<PersonRow>({
  name: 'Person',
  tableName: 'users',
  columns: {
    id: { type: Number, primary: true, generated: true },
    name: { type: 'text' },
    email: { type: 'text' },
    username: { type: 'text' },
    provider: { type: 'text' },
    accessVersion: { type: Number, name: 'access_version', default: 0 },
    lowestAcceptedVersion: { type: Number, name: 'lowest_accepted_version', default: 0 },
    disabled: { type: Boolean, default: false },
    mainAreaId: { type: Number, name: 'main_area_id', nullable: true },
    createdAt: { type: 'timestamptz', name: 'created_at', default: () => 'now()' },
    lastLoginAt: { type: 'timestamptz', name: 'last_login_at', nullable: true }
  }
})

const ProviderLink = new EntitySchema<{ provider: Provider; issuer: string; subject: string; userId: number }>({
  name: 'ProviderLink',
  tableName: 'provider_links',
  columns: {
    provider: { type: 'text', primary: true },
    issuer: { type: 'text', primary: true },
    subject: { type: 'text', primary: true },
    userId: { type: Number, name: 'user_id' }
  }
})

export const PersonProfile = new EntitySchema<{ userId: number; profileId: number }>({
  name: 'PersonProfile',
  tableName: 'user_profiles',
  columns: {
    userId: { type: Number, name: 'user_id', primary: true },
    profileId: { type: Number, name: 'profile_id', primary: true }
  }
})

export const PersonArea = new EntitySchema<{ userId: number; areaId: number }>({
  name: 'PersonArea',
  tableName: 'user_areas',
  columns: {
    userId: { type: Number, name: 'user_id', primary: true },
    areaId: { type: Number, name: 'area_id', primary: true }
  }
})

const Revocation = new EntitySchema<{ jti: string; expiresAt: Date }>({
  name: 'Revocation',
  tableName: 'revocations',
  columns: {
    jti: { type: 'text', primary: true },
    expiresAt: { type: 'timestamptz', name: 'expires_at' }
  }
})

export const entities = [Area, ProfileTable, Person, ProviderLink, PersonProfile, PersonArea, Revocation]

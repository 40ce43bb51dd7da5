// Lists the advisory locks of Postgres: arbitrary numbers, each used once, and the same for all versions of the gateway.

export const MIGRATION_LOCK = 7_263_544_001
/** Held by every change of access, area or state. */
export const ACCESS_LOCK = 7_263_544_002
/**
 * Held shared while a person's access is worked out, and alone while other grants come into force, so that no person gets
 * what the grants before gave.
 */
export const GRANTS_LOCK = 7_263_544_003
export const SIGNING_KEYS_LOCK = 7_263_544_004
/** Held while entries of the audit log are checked or archived. */
export const AUDIT_CHECK_LOCK = 7_263_544_005
/** Of a session: held by the process that builds indexes. */
export const ONLINE_STEPS_LOCK = 7_263_544_006
export const AUDIT_KEY_LOCK = 7_263_544_007

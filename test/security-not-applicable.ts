// Entries of the catalogue that no test can name, each with the reason.

/** Catalogue id → why the entry has nothing to attack here. */
export const NOT_APPLICABLE: Readonly<Record<string, string>> = {}

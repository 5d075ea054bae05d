// What has failed in the drill.

/** The faults: how, at which replica (none: at the database of all), from when to when, and which tenants had their home there. */
export const kills = /** @type {{replica: number | undefined, how: string, from: number, to: number, homes: Set<number>}[]} */ ([]);

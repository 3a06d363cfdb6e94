/** Where a node listens. */
export interface NodePlace {
  host: string;
  port: number;
}

/** Equal for equal places. */
export function placeName({ host, port }: NodePlace): string {
  return `${host}:${port}`;
}

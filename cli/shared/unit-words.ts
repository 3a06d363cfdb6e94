/** `a minute`, `an hour`: what a limit counts for. */
export function perUnit(unit: string): string {
  const name = unit.toLowerCase();
  return name === 'hour' ? 'an hour' : `a ${name}`;
}

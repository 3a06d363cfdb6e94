import { Unit } from './model.ts';

const unitsByText = new Map<string, Unit>();
for (const [name, unit] of Object.entries(Unit)) {
  if (unit !== Unit.UNKNOWN) {
    unitsByText.set(name, unit);
    unitsByText.set(name.toLowerCase(), unit);
  }
}

/** The unit that a rule's text names, in any letter case; undefined when it names none (UNKNOWN is none). */
export function unitFromText(text: string): Unit | undefined {
  return unitsByText.get(text) ?? unitsByText.get(text.toUpperCase());
}

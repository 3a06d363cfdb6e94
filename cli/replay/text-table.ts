/** Columns as wide as their widest cell, two spaces apart; those named in `right` are numbers. */
export function textTable(rows: readonly (readonly string[])[], right: ReadonlySet<number>): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows.map((row) => {
    const cells = row.map((cell, column) =>
      right.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
    );
    return `  ${cells.join('  ')}`.trimEnd();
  });
}

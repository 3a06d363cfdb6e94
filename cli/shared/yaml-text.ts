/** The types of JSON. */
type Value = null | boolean | number | string | Value[] | Fields;
type Fields = { [key: string]: Value };

/** Writes YAML as people write it: blocks, and quotes only if a text could be read as another value. */
export function yamlText(value: Fields): string {
  return `${mapLines(value).join('\n')}\n`;
}

/** The longest key in simple form. YAML looks 1,024 characters ahead for a colon. */
const longestSimpleKey = 200;

function mapLines(map: Fields): string[] {
  return Object.entries(map).flatMap(([key, value]) => {
    const name = scalarText(key);
    if (name.length > longestSimpleKey) return [`? ${name}`, ...valueLines(':', value)];
    return valueLines(`${name}:`, value);
  });
}

/** Returns the lines of a value behind its key. A list is indented as deep as the key, as in all examples. */
function valueLines(head: string, value: Value): string[] {
  if (Array.isArray(value)) {
    if (value.length === 0) return [`${head} []`];
    return [head, ...value.flatMap(elementLines).map(indented)];
  }
  if (value === null || typeof value !== 'object') return [`${head} ${scalarText(value)}`];
  if (Object.keys(value).length === 0) return [`${head} {}`];
  return [head, ...mapLines(value).map(indented)];
}

function elementLines(element: Value): string[] {
  if (element === null || typeof element !== 'object') return [`- ${scalarText(element)}`];
  const lines = Array.isArray(element) ? element.flatMap(elementLines) : mapLines(element);
  if (lines.length === 0) return [Array.isArray(element) ? '- []' : '- {}'];
  return lines.map((line, index) => (index === 0 ? `- ${line}` : indented(line)));
}

function indented(line: string): string {
  return `  ${line}`;
}

/** Matches texts that all dialects of YAML read as texts. */
const plain = /^[A-Za-z_/][\w/.*-]*$/;
const words = /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i;

function scalarText(value: string | number | boolean | null): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  return plain.test(value) && !words.test(value) ? value : quoted(value);
}

/** Quotes a text. YAML has JSON's quotes; characters that YAML does not print are escaped. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u00a0\u2028\u2029\ufeff\ufffe\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

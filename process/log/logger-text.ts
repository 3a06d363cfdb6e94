/** One line of LOG_FORMAT=text: `time="2026-01-02T03:04:05Z" level=warning msg="..." key=value`. */
export interface LogLine {
  timeMs: number;
  level: string;
  message: string;
  fields: Record<string, unknown>;
}

export function formatLogLine(line: LogLine): string {
  const time = `${new Date(line.timeMs).toISOString().slice(0, 19)}Z`;
  let text = `time="${time}" level=${line.level} msg=${quote(line.message)}`;
  for (const [key, value] of Object.entries(line.fields)) text += ` ${key}=${formatValue(value)}`;
  return `${text}\n`;
}

/** What logrus leaves without quotes. */
const bare = /^[A-Za-z0-9\-._/@^+]+$/;
/** JSON leaves these as they are, a terminal does not. */
const unprintable = /[\u007f-\u009f\u2028\u2029]/g;

function formatValue(value: unknown): string {
  const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
  return bare.test(text) ? text : quote(text);
}

function quote(text: string): string {
  return JSON.stringify(text).replace(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

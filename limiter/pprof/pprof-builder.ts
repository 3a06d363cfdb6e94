/** Builds a profile that `go tool pprof` reads from V8's call frames. */
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import {
  Location,
  Mapping,
  Function as PprofFunction,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from 'pprof-format';

/** A function in V8. Lines and columns count from 0. They are -1 for frames outside JavaScript. */
export interface CallFrame {
  functionName: string;
  url: string;
  lineNumber: number;
  columnNumber: number;
}

export interface ValueKind {
  type: string;
  unit: string;
}

export interface ProfileHead {
  timeMs: number;
  durationMs: number;
  periodKind: ValueKind;
  period: number;
  comment: string;
}

const compress = promisify(gzip);

export class PprofBuilder {
  readonly #strings = new StringTable();
  readonly #sampleTypes: ValueType[];
  readonly #functions: PprofFunction[] = [];
  readonly #locations: Location[] = [];
  readonly #samples: Sample[] = [];
  readonly #functionIds = new Map<string, number>();
  readonly #locationIds = new Map<string, number>();

  /** The last kind of value is the one shown unless another is asked for. */
  constructor(kinds: ValueKind[]) {
    this.#sampleTypes = kinds.map((kind) => this.#valueType(kind));
  }

  /** The id of a place in a function: `line`, counted from 1, or where the function begins. */
  location(frame: CallFrame, line = frame.lineNumber + 1): number {
    const functionId = this.#functionId(frame);
    const key = `${functionId}:${line}`;
    let id = this.#locationIds.get(key);
    if (id === undefined) {
      id = this.#locations.length + 1;
      this.#locationIds.set(key, id);
      this.#locations.push(new Location({ id, mappingId: 1, line: [{ functionId, line }] }));
    }
    return id;
  }

  /** `stack` begins with the innermost location. There is one value for each kind. */
  addSample(stack: number[], values: number[]): void {
    this.#samples.push(new Sample({ locationId: stack, value: values.map(Math.round) }));
  }

  async gzipped(head: ProfileHead): Promise<Uint8Array> {
    const profile = new Profile({
      sampleType: this.#sampleTypes,
      sample: this.#samples,
      mapping: [this.#mapping()],
      location: this.#locations,
      function: this.#functions,
      timeNanos: BigInt(Math.round(head.timeMs)) * 1_000_000n,
      durationNanos: Math.round(head.durationMs * 1e6),
      periodType: this.#valueType(head.periodKind),
      period: head.period,
      comment: [this.#strings.dedup(head.comment)],
      stringTable: this.#strings,
    });
    return compress(await profile.encodeAsync());
  }

  /** Returns a mapping that shows pprof that all names are known, so that it does not look for a binary. */
  #mapping(): Mapping {
    return new Mapping({
      id: 1,
      filename: this.#strings.dedup('weir'),
      hasFunctions: true,
      hasFilenames: true,
      hasLineNumbers: true,
      hasInlineFrames: true,
    });
  }

  #functionId(frame: CallFrame): number {
    const key = `${frame.url}:${frame.lineNumber}:${frame.columnNumber}:${frame.functionName}`;
    let id = this.#functionIds.get(key);
    if (id === undefined) {
      id = this.#functions.length + 1;
      this.#functionIds.set(key, id);
      this.#functions.push(this.#function(id, frame));
    }
    return id;
  }

  #function(id: number, frame: CallFrame): PprofFunction {
    const file = fileName(frame.url);
    return new PprofFunction({
      id,
      name: this.#strings.dedup(displayName(frame, file)),
      systemName: this.#strings.dedup(frame.functionName || 'anonymous'),
      filename: this.#strings.dedup(file),
      startLine: Math.max(0, frame.lineNumber + 1),
    });
  }

  #valueType({ type, unit }: ValueKind): ValueType {
    return new ValueType({ type: this.#strings.dedup(type), unit: this.#strings.dedup(unit) });
  }
}

function fileName(url: string): string {
  return url.startsWith('file://') ? fileURLToPath(url) : url;
}

/** Returns the name with its location, because pprof adds up functions of one name. Names such as `(idle)` are V8's own. */
function displayName(frame: CallFrame, file: string): string {
  if (file === '') return frame.functionName || '(native)';
  const place = file.split('/').slice(-2).join('/');
  return `${frame.functionName || 'anonymous'} (${place}:${frame.lineNumber + 1})`;
}

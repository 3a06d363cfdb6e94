import { versions } from 'node:process';

// An import of this file comes first, so that an old Node ends with this sentence, and not with the name of a function that it lacks.

/** The oldest Node that the library runs on: `engines` of package.json. */
const oldest = [22, 15] as const;

const [major = 0, minor = 0] = versions.node.split('.').map(Number);
if (major < oldest[0] || (major === oldest[0] && minor < oldest[1]))
  throw new Error(`@weir-limits/limiter needs Node ${oldest.join('.')} or later, not ${versions.node}`);

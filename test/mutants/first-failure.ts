/** After the first failure in a file the rest of it is skipped: the mutant is killed, and what hangs would cost its time again. */
import { beforeEach } from 'vitest';

let hasFailed = false;

beforeEach(({ skip, onTestFailed }) => {
  if (hasFailed) skip();
  onTestFailed(() => {
    hasFailed = true;
  });
});

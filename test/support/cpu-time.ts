/** Milliseconds of CPU that this thread takes for something: what else runs on the machine does not count. */
export function cpuMs(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

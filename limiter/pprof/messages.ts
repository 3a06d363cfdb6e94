/** What is asked of a worker: gzipped pprof. */
export interface ProfileMessages {
  cpu(question: { seconds: number }): Promise<Uint8Array>;
  heap(question: { collect: boolean }): Promise<Uint8Array>;
}

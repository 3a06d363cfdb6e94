/** Requests to a worker. The results are gzipped pprof. */
export interface ProfileMessages {
  cpu(question: { seconds: number }): Promise<Uint8Array>;
  heap(question: { collect: boolean }): Promise<Uint8Array>;
}

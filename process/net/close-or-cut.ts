export interface Closing {
  /** Calls back when everything that was open is closed. */
  close(closed: () => void): void;
  /** Closes what is still open by force. */
  cut(): void;
  /** How long `close` may take before the cut. */
  graceMs: number;
}

/** Ends a listener: settles when it is closed, by itself or by the cut. */
export async function closeOrCut({ close, cut, graceMs }: Closing): Promise<void> {
  const closed = new Promise<void>(close);
  const timer = setTimeout(cut, graceMs);
  await closed;
  clearTimeout(timer);
}

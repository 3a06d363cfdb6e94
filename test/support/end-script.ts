/** The end of a script that has said everything, but whose process something may still hold. */
export function endScript(graceMs = 5_000): void {
  setTimeout(() => {
    const open = process.getActiveResourcesInfo();
    const names = open.length > 0 ? open.join(', ') : 'a native handle';
    console.error(`ended, though something was still open: ${names}`);
    process.exit();
  }, graceMs).unref();
}

/** Who may ask what (CALLERS_FILE): the file, the identity of callers, their rights and their rates. */
export { Callers, type CallersInForce, type RefusalReason, type RefusedRequest } from './callers.ts';
export {
  anonymousCaller,
  type CallerEntry,
  type CallersProblem,
  callerName,
  looksLikeCallers,
  readCallersFile,
  unknownCaller,
} from './callers-file.ts';
export { carryRate, newRequestRates } from './request-rates.ts';

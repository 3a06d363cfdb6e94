/** Why a connection was cut, in words for the log. */
export const connectionCuts = {
  idle: 'too many connections without a stream of discovery are open, and its address has most of them',
  memory:
    'requests that are not complete and responses that are not read take too much memory, and its address holds most',
} as const;
export type ConnectionCut = keyof typeof connectionCuts;

/** Server reflection: tells callers which services there are and what their messages look like, so that they need no proto files. */
export { reflectionMethods } from '../reflection-service.ts';

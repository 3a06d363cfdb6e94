/** The thread that looks for counters that could meet where the rules were loaded on the thread that answers requests. */
import { workerData } from 'node:worker_threads';
import type { RuleSource } from '../../rules/model.ts';
import { tellMeetings } from './load-thread.ts';

tellMeetings(workerData as readonly RuleSource[]);

/** Statistics with tags, over UDP, to a dogstatsd receiver: USE_DOG_STATSD. */
export { DogStatsdSink } from '../sinks/dogstatsd-sink.ts';
export { Mogrifiers, type MogrifierText } from '../sinks/mogrifier.ts';

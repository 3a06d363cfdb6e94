/** Statistics with tags, over UDP, to a dogstatsd receiver: USE_DOG_STATSD. */
export { DogStatsdSink } from './dogstatsd-sink.ts';
export { Mogrifiers, type MogrifierText } from './mogrifier.ts';

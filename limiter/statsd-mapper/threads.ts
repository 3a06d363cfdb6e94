/** The main thread serves Prometheus, so it alone reads the file. */
import type { MainContext, MainPart } from '../capabilities/parts.ts';
import { lines } from './lines.ts';
import { readMapperFile } from './mapper-file.ts';
import { type MapperSettings, mapperFileOf } from './settings.ts';

export function main({ settings, log }: MainContext<MapperSettings>): MainPart {
  return {
    mapping() {
      const { mapping, warnings } = readMapperFile(mapperFileOf(settings));
      for (const warning of warnings) lines.mapperWarning(log, { warning });
      return mapping;
    },
  };
}

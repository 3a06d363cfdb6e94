import { packageFile } from '../../process/files/package-file.ts';
import { commandOf, hintOf, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';

/** The kinds of JSON Schema, each in schemas/<name>.json. */
export const schemaKinds = [
  'rules',
  'profiles',
  'callers',
  'ratelimitconfig',
  'ratelimitfleet',
  'ratelimitoverride',
] as const;

const help = `Usage: weir schema <${schemaKinds.join('|')}>

Prints the JSON Schema of rule files, profiles, callers files or manifests, for editors and other checks. The package also contains them, in schemas/. docs/pull-requests.md describes how to use them in an editor.

  weir schema rules > .rules.schema.json
`;

export const schemaCommand = commandOf(
  help,
  ({ positionals: [given = '', ...stray] }) => {
    const kind = schemaKinds.find((known) => known === given.toLowerCase());
    if (kind === undefined || stray.length > 0) {
      const which = given === '' ? 'say which' : `there is no schema "${given}"${hintOf(given, schemaKinds)}`;
      throw new UsageError(
        stray.length > 0 ? 'schema takes one name' : `${which}: ${schemaKinds.join(', ')}`,
      );
    }
    io().stdout.write(packageFile(`schemas/${kind}.json`));
    return 0;
  },
  { words: schemaKinds },
);

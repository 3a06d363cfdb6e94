import { expect, it } from 'vitest';
import { ChildProgram } from './child-program.ts';

const module = JSON.stringify(new URL('end-script.ts', import.meta.url).href);

async function run(script: string): Promise<{ code: number | null; output: string }> {
  const text = `import { endScript } from ${module};\n${script}`;
  const program = new ChildProgram({ command: process.execPath, args: ['--input-type=module', '-e', text] });
  const { code } = await program.ended;
  return { code, output: program.output };
}

it('ends a script that something holds, names it, and leaves the exit status alone', async () => {
  const held = await run('setInterval(() => {}, 1_000); process.exitCode = 3; endScript(50);');
  expect(held).toEqual({ code: 3, output: 'ended, though something was still open: Timeout\n' });
});

it('holds no script itself', async () => {
  expect(await run('endScript(600_000);')).toEqual({ code: 0, output: '' });
});

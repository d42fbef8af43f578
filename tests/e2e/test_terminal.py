# SPDX-License-Identifier: Apache-2.0
"""What a person sees on a terminal of 80 columns: bars while work lasts, and whole lines when it is done."""
import fcntl
import itertools
import os
import pty
import re
import struct
import termios

import strata_e2e as e2e

COLUMNS = 80
MPIRUN_RULE = 74 * '-'   # below it stand mpirun's own words
SPEC = 'synthetic:kind=sbm,nodes=6000,edges=120000,features=32,classes=10,seed=3'
# Epochs of a second and more, so that each draws its bar.
JOB = ['--fanouts', '15,10', '--batch-size', '4', '--hidden', '512', '--epochs', '2', '--device', 'cpu']
BAR = re.compile(r'^epoch \d/2 \[#*\.*\] +\d+ %  (loss \d\.\d{4}  (best 0\.\d{4}  )?)?[\d.]+[kM]? seeds/s  ([\d.]+ \w+|[\d:]+) left$')
EPOCH = re.compile(r'^epoch \d/2  loss \d\.\d{4}  valid \d\.\d{4}  test \d\.\d{4} +[\d.]+ [mu]?s  [\d.]+[kM]? seeds/s( \*)?$')


class Screen:
    """The lines of a terminal, and every state in which a line has been while it was drawn over."""

    def __init__(self):
        self.lines, self.column, self.states = [''], 0, []

    def write(self, text):
        for piece in re.findall(r'\x1b\[[\d;]*[A-Za-z]|[^\x1b]', text):
            if piece == '\n':
                self.lines.append('')
            elif piece == '\r':
                self.states.append(self.lines[-1])
                self.column = 0
            elif piece == '\x1b[K':
                self.lines[-1] = self.lines[-1][:self.column]
            elif not piece.startswith('\x1b'):
                self.lines[-1] = self.lines[-1][:self.column].ljust(self.column) + piece + self.lines[-1][self.column + 1:]
                self.column += 1


def on_terminal(command, folder, **environment):
    """Runs it with a terminal of its own; returns the exit code and the screen."""
    child, terminal = pty.fork()
    if child == 0:
        try:
            os.chdir(folder)
            os.execve(str(command[0]), [str(word) for word in command], dict(e2e.ENVIRONMENT, TERM='xterm', **environment))
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 24, COLUMNS, 0, 0))
    screen, text = Screen(), b''
    with os.fdopen(terminal, 'rb', buffering=0) as stream:
        while True:
            try:
                read = stream.read(1 << 16)
            except OSError:   # the last process has closed it
                break
            if not read:
                break
            text += read
    screen.write(text.decode())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen


class Terminal(e2e.Case):
    def setUp(self):
        super().setUp()
        self.graph = self.build(SPEC, 2)

    def launchers(self):
        yield 'alone', [e2e.BIN / 'strata-train']
        yield 'mpirun', [e2e.MPIRUN, '-n', 2, '--oversubscribe', '--bind-to', 'none', e2e.BIN / 'strata-train']
        yield 'strata-run', [e2e.REPOSITORY / 'launch/strata-run', '-n', 2, '--']

    def see(self, launcher, *options, expect=0):
        code, screen = on_terminal([*launcher, *options], self.folder, STRATA_BIN=str(e2e.BIN))
        shown = '\n'.join(screen.lines)
        self.assertEqual(code, expect, shown)
        for lines in screen.lines, screen.states:
            for line in itertools.takewhile(lambda line: line != MPIRUN_RULE, lines):
                self.assertLessEqual(len(line), COLUMNS, line)
        return screen, shown

    def test_has_bars_and_whole_lines(self):
        for name, launcher in self.launchers():
            with self.subTest(name):
                screen, shown = self.see(launcher, '--graph', self.graph.name, *JOB)
                bars = [state for state in screen.states if BAR.match(state)]
                self.assertGreater(len(set(bars)), 2, screen.states)
                self.assertTrue(any(' loss ' in bar and ' best ' not in bar for bar in bars), bars)
                self.assertTrue(any(bar.startswith('epoch 2') and ' best 0.' in bar for bar in bars), bars)
                self.assertEqual(len([line for line in screen.lines if EPOCH.match(line)]), 2, shown)
                self.assertNotIn('[#', shown, 'a bar is left')
                self.assertNotIn('[.', shown, 'a bar is left')
                for start in 'graph   ', 'model   ', 'ranks   ', 'folder  ', 'best epoch ', 'next    ':
                    self.assertEqual(len([line for line in screen.lines if line.startswith(start)]), 2 if start == 'model   ' else 1, shown)

    def test_may_have_lines_instead(self):
        for style in 'lines', 'off':
            screen, shown = self.see([e2e.BIN / 'strata-train'], '--graph', self.graph.name, *JOB, '--progress', style)
            self.assertEqual([state for state in screen.states if '[' in state], [])
            self.assertEqual(len([line for line in screen.lines if EPOCH.match(line)]), 2, shown)

    def test_tells_an_error_first(self):
        """Also where mpirun was not told to keep its words to itself."""
        for name, launcher in self.launchers():
            with self.subTest(name):
                screen, shown = self.see(launcher, '--graph', 'nowhere', expect=2)
                self.assertEqual(screen.lines[0], 'strata-train: nowhere: no such directory', shown)
                self.assertEqual('mpirun only adds the exit code' in shown, name == 'mpirun', shown)
                self.assertEqual(MPIRUN_RULE in shown, name == 'mpirun', shown)
                self.assertNotIn('MPI_ABORT', shown)

    def test_shows_the_bars_of_a_build(self):
        code, screen = on_terminal([e2e.BIN / 'strata-partition', 'build', '--input', SPEC, '--parts', 2, '--output', 'again'], self.folder)
        shown = '\n'.join(screen.lines)
        self.assertEqual(code, 0, shown)
        for line in screen.lines:
            self.assertLessEqual(len(line), COLUMNS, line)
        self.assertNotIn('[#', shown)


if __name__ == '__main__':
    e2e.main()

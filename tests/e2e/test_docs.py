# SPDX-License-Identifier: Apache-2.0
"""What the pages tell users to type works: every marked block of README.md, docs/ and examples/ is run as it stands.

    <!-- runnable -->          before a fenced block of sh or python: run in a folder of the page
    <!-- runnable: FILE -->    before any fenced block: its text becomes this file there
    <!-- hidden sh             until the line -->: commands that readers do not see; or python

The blocks of a page are run in their order, and blocks of Python share their names. The programs are on the PATH, launch/mpi-env is
sourced, and the folder has what pages take for granted: `launch`, `examples`, and a small dataset in `datasets/products`.
"""
import contextlib
import gzip
import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np

import strata_e2e as e2e

PAGES = [e2e.REPOSITORY / 'README.md', e2e.REPOSITORY / 'partition/FORMAT.md', *sorted((e2e.REPOSITORY / 'docs').glob('*.md')),
         *sorted((e2e.REPOSITORY / 'examples').rglob('*.md'))]
BLOCK = re.compile(r'^<!-- runnable(?:: (?P<file>\S+))? -->\n```(?P<lang>\w+)\n(?P<text>.*?)^```$'
                   r'|^<!-- hidden (?P<hidden>\w+)\n(?P<unseen>.*?)^-->$', re.M | re.S)
NEEDS = ('strata', 'torch', 'torch_geometric', 'safetensors', 'h5py', 'pandas', 'matplotlib', 'jinja2', 'plotly')
LACKING = [name for name in NEEDS if importlib.util.find_spec(name) is None]
SHELL = f'source {e2e.REPOSITORY}/launch/mpi-env\nPATH={e2e.BIN}:{pathlib.Path(sys.executable).parent}:$PATH\n'


def write_dataset(folder, nodes=400, features=100, classes=47):
    """A folder as OGB unpacks it, with the shape of ogbn-products but for the number of nodes."""
    random = np.random.default_rng(1)
    tables = {'raw/num-node-list': [[nodes]], 'raw/num-edge-list': [[5 * nodes]],
              'raw/edge': random.integers(nodes, size=(5 * nodes, 2)), 'raw/node-label': np.arange(nodes)[:, None] % classes,
              'raw/node-feat': random.normal(size=(nodes, features)).round(3)}
    split = random.permutation(nodes)
    for name, ids in ('train', split[:200]), ('valid', split[200:300]), ('test', split[300:]):
        tables[f'split/sales_ranking/{name}'] = np.sort(ids)[:, None]
    for name, table in tables.items():
        path = folder / f'{name}.csv.gz'
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, 'wt', compresslevel=1) as file:
            np.savetxt(file, table, '%g', delimiter=',')


def headings(page):
    """The names by which links reach the headings of a page."""
    text = re.sub(r'^```.*?^```$', '', page.read_text(), flags=re.M | re.S)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in re.findall(r'^#+ (.*)$', text, re.M)}


class Docs(e2e.Case):
    def run_shell(self, text, told):
        done = subprocess.run(['bash', '-euo', 'pipefail', '-c', SHELL + text], cwd=self.folder, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(e2e.ENVIRONMENT, PIP_DISABLE_PIP_VERSION_CHECK='1'))
        self.assertEqual(done.returncode, 0, f'{told}\n{text}\n{done.stdout}')

    def run_python(self, text, names, told):
        before = sys.path.copy()
        try:
            with contextlib.chdir(self.folder):
                exec(compile(text, told, 'exec'), names)
        finally:
            sys.path[:] = before

    def run_page(self, page):
        text = page.read_text()
        for name in 'launch', 'examples':
            (self.folder / name).symlink_to(e2e.REPOSITORY / name)
        write_dataset(self.folder / 'datasets/products')
        names = {}
        for block in BLOCK.finditer(text):
            told = f'{page.name}:{text[:block.start()].count(chr(10)) + 1}'
            language, words = block['hidden'] or block['lang'], block['unseen'] or block['text']
            if block['file']:
                path = self.folder / block['file']
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(words)
            elif language == 'python':
                self.run_python(words, names, told)
            else:
                self.assertEqual(language, 'sh', told)
                self.run_shell(words, told)

    def test_marks_are_understood(self):
        marked = 0
        for page in PAGES:
            text = page.read_text()
            marks = len(re.findall('<!-- (?:runnable|hidden)', text))
            self.assertEqual(marks, len(BLOCK.findall(text)), f'{page}: a mark stands before no block')
            marked += marks
        self.assertGreater(marked, 15)

    def test_links_lead_somewhere(self):
        """Files and folders of the tree, and headings of pages."""
        tracked = subprocess.run(['git', 'ls-files', '*.md'], cwd=e2e.REPOSITORY, text=True, capture_output=True).stdout.split()
        for page in [e2e.REPOSITORY / name for name in tracked] or PAGES:   # a copy of the tree may have no git
            for name, heading in re.findall(r'\]\((?!\w+:)([^()\s#]*)(?:#([^()\s]+))?\)', page.read_text()):
                target = page.parent / name if name else page
                with self.subTest(f'{page.relative_to(e2e.REPOSITORY)}: {name}#{heading}'):
                    self.assertTrue(target.exists())
                    if heading:
                        self.assertIn(heading, headings(target))

    def test_container_recipes_run_the_same_commands(self):
        """Those of launch/ exist, with their options, and what is copied is what the tree has."""
        folder = e2e.REPOSITORY / 'launch/container'
        docker = (folder / 'Dockerfile').read_text()
        apptainer = (folder / 'strata.def').read_text()
        commands = re.findall(r'^RUN (.*)$', docker, re.M)
        sections = ''.join(re.findall(r'^%post\n((?:    .*\n)+)', apptainer, re.M))
        self.assertEqual(commands, [line for line in sections.replace('    ', '').splitlines() if not line.startswith(('cd ', 'export '))])
        scripts = [command.split() for command in commands if command.startswith('launch/')]
        self.assertEqual([words[0] for words in scripts], ['launch/setup', 'launch/wheel'])
        for script, *words in scripts:
            told = subprocess.run([e2e.REPOSITORY / script, '--help'], text=True, capture_output=True).stdout
            for option in [word for word in words if word.startswith('-')]:
                self.assertRegex(told, rf'(?m)^  +{option} ')
        copied = re.findall(r'^    (\S+) /src/$', apptainer, re.M)
        self.assertEqual([name for name in copied if not (e2e.REPOSITORY / name).exists()], [])
        built = re.findall(r'^add_subdirectory\((\w+)', (e2e.REPOSITORY / 'CMakeLists.txt').read_text(), re.M)
        self.assertLessEqual({*built, 'cmake', 'include', 'launch', 'python', 'src', 'CMakeLists.txt', 'pyproject.toml'}, set(copied))


def add_pages():
    """One test per page that has marked blocks."""
    for page in PAGES:
        if BLOCK.search(page.read_text()):
            name = re.sub(r'\W', '_', str(page.relative_to(e2e.REPOSITORY).with_suffix('')))
            test = unittest.skipIf(LACKING, f'not installed: {", ".join(LACKING)}')(lambda self, page=page: self.run_page(page))
            setattr(Docs, f'test_{name}', test)


add_pages()

if __name__ == '__main__':
    e2e.main()

# SPDX-License-Identifier: MIT
"""What was made from the headers is what the C compiler and the library say."""
import builtins
import os
import re
import subprocess
import tempfile
import unittest

import rdmad
from rdmad import _library as library
from rdmad import _made as made

SOURCE = os.environ["RDMAD_SOURCE"]
ffi, lib = library.ffi, library.lib


class Declared(unittest.TestCase):
    def test_constants_are_the_librarys(self):
        self.assertGreater(len(made.CONSTANTS), 100)
        for name, value in made.CONSTANTS.items():
            self.assertEqual(lib.rdmad_constant(name.encode()), value, name)

    def test_structs_have_the_librarys_size(self):
        structs = [t for t in ffi.list_types()[1] if t.startswith("rdmad_") and ffi.typeof(f"struct {t}").fields]
        self.assertGreater(len(structs), 10)
        for name in structs:
            self.assertEqual(lib.rdmad_struct_size(name.encode()), ffi.sizeof(f"struct {name}"), name)

    def test_inits_are_the_headers(self):
        """The C compiler writes each INIT's bytes; make() gives the same."""
        self.assertGreaterEqual(len(made.INIT), 12)
        program = ["#include <rdmad/rdmad.h>", "#include <stdio.h>", "#include <string.h>", "int main(void) {"]
        for name in made.INIT:
            program.append(f'{{ static struct {name} it; static const struct {name} init = {name.upper()}_INIT; it = init;'
                           f' printf("{name} "); for (size_t i = 0; i < sizeof(it); i++)'
                           ' printf("%02x", ((unsigned char *)&it)[i]); puts(""); }')
        program.append("return 0; }")
        with tempfile.TemporaryDirectory() as work:
            subprocess.run(["cc", "-xc", "-I", SOURCE + "/include", "-o", work + "/inits", "-"], check=True, text=True,
                           input="\n".join(program))
            said = subprocess.run([work + "/inits"], check=True, capture_output=True, text=True).stdout
        for line in said.splitlines():
            name, hexes = line.split()
            self.assertEqual(bytes(ffi.buffer(library.make(name))).hex(), hexes, name)

    def test_every_function_is_declared(self):
        with open(SOURCE + "/libclient/librdmad.map", encoding="ascii") as f:
            names = re.findall(r"^    (rdmad_\w+);", f.read(), re.M)
        self.assertGreater(len(names), 80)
        for name in names:
            self.assertTrue(getattr(lib, name, None), name)

    def test_every_error_has_a_class(self):
        with open(SOURCE + "/include/rdmad/abi.h", encoding="ascii") as f:
            errors = re.findall(r'X\((RDMAD_E_\w+), (-\d+), "(.*?)"\)', f.read())
        self.assertGreater(len(errors), 40)
        for name, value, text in errors:
            kind = made.ERRORS[int(value)]
            camel = "".join(w.capitalize() for w in name[len("RDMAD_E_"):].split("_")) + "Error"
            self.assertIs(getattr(rdmad, camel), kind)
            self.assertTrue(issubclass(kind, rdmad.Error))
            self.assertEqual((kind.code, kind.errname, kind.general), (int(value), name, text))
            self.assertEqual(str(library.error(int(value))), text)
        self.assertEqual(len(made.ERRORS), len(errors))

    def test_what_is_imported_by_a_star_hides_no_builtin(self):
        names = {}
        exec("from rdmad import *", names)
        self.assertIs(names["LeaseExpiredError"], rdmad.LeaseExpiredError)
        self.assertEqual([n for n in names if n in dir(builtins)], [])
        self.assertTrue(issubclass(rdmad.TypeError, rdmad.Error))

    def test_a_newer_librarys_error_is_one_too(self):
        self.assertEqual((library.error(-999, "said").code, str(library.error(-999, "said"))), (-999, "said"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

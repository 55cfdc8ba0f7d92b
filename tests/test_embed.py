"""libweft as a C or C++ programmer meets it: installed, found by CMake and pkg-config, run by the
examples, and without the model part."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("WEFT_BUILD", os.path.join(ROOT, "build", "release"))
STORY = os.path.join(ROOT, "models", "stories260k", "stories260K.F32.gguf")
PROGRAM = """
#include <stdio.h>
#include <weft/weft.h>
int main(void)
{
    weft_ctx_opts opts = {};
    opts.device = "cpu";
    weft_ctx *ctx;
    if (weft_ctx_open(&opts, &ctx) != WEFT_OK)
        return 1;
    float v[2] = {1, 2}, got[2];
    int64_t shape[1] = {2};
    weft_tensor *a = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, shape, v);
    weft_tensor *b = weft_add(a, a);
    if (weft_read(b, got, sizeof got) != WEFT_OK)
        return 1;
    printf("%s %g %g\\n", weft_version(), got[0], got[1]);
    EXIT
    return 0;
}
"""
CLOSE = "weft_tensor_release(a); weft_tensor_release(b); weft_ctx_close(ctx);"


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=240, **options)


@unittest.skipIf(os.environ.get("WEFT_SANITIZER"), "an installed library is tested without sanitizers")
class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.prefix = os.path.join(cls.folder, "prefix")
        done = run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.libdir = next(d for d, _, files in os.walk(cls.prefix) if "libweft.so" in files)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def check(self, program):
        done = run(program, env={**os.environ, "LD_LIBRARY_PATH": self.libdir})
        self.assertEqual((done.returncode, done.stdout.split()[1:], done.stderr), (0, ["2", "4"], ""))

    def test_cmake_finds_the_package(self):
        self.write("app/main.c", PROGRAM.replace("{};", "{0};").replace("EXIT", CLOSE))
        self.write("app/CMakeLists.txt", "cmake_minimum_required(VERSION 3.20)\nproject(app C)\nfind_package(weft 0.1 REQUIRED)\n"
                   "add_executable(app main.c)\ntarget_link_libraries(app weft::weft)\n")
        app = os.path.join(self.folder, "app")
        done = run("cmake", "-S", app, "-B", app + "/b", "-DCMAKE_PREFIX_PATH=" + self.prefix)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("cmake", "--build", app + "/b")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check(app + "/b/app")

    def test_pkg_config_serves_c_and_cpp(self):
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "weft", env=env)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        for compiler, name, init in (("cc", "c.c", "{0};"), ("c++", "cpp.cpp", "{};")):
            source = self.write(name, PROGRAM.replace("{};", init).replace("EXIT", CLOSE))
            done = run(compiler, "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", source, "-o", source + ".out",
                       *flags.stdout.split())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check(source + ".out")

    def test_a_program_that_closes_nothing_ends(self):
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "weft", env=env).stdout.split()
        source = self.write("leave.c", PROGRAM.replace("{};", "{0};").replace("EXIT", ""))
        self.assertEqual(run("cc", source, "-o", source + ".out", *flags).returncode, 0)
        self.check(source + ".out")

    def test_the_installed_program_runs(self):
        program = os.path.join(self.prefix, "bin", "weft")
        done = run(program, "run", STORY, "-p", "Once", "-n", "3", "--temp", "0", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Once upon a time", done.stdout)


def example(word):
    """The built example whose name holds the word."""
    return next(os.path.join(BUILD, f) for f in sorted(os.listdir(BUILD)) if f.startswith("example-") and word in f and "." not in f)


class Examples(unittest.TestCase):
    def test_tensors_multiplies_adds_and_reads_back(self):
        done = run(example("tensors"), "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split()[-4:], ["0.377541", "0.622459"] * 2)  # softmax of 4.5, 5 and of 10.5, 11

    def test_generate_writes_the_story(self):
        done = run(example("generate"), STORY, "Once upon a time", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("there was a little girl", done.stdout)

    def test_steps_truncate_save_and_restore(self):
        done = run(example("session_steps"), STORY, "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.replace(";", "").split() for line in done.stdout.splitlines()]
        self.assertEqual(lines[0][1:3], ["403", "407"])  # "Once upon", as every greedy story begins
        self.assertEqual(lines[1][1], lines[0][2])
        self.assertGreaterEqual(int(lines[2][1]), 0)

    def test_they_are_short(self):
        for name in os.listdir(os.path.join(ROOT, "examples")):
            with open(os.path.join(ROOT, "examples", name)) as f:
                self.assertLess(len(f.readlines()), 81)


@unittest.skipUnless(os.environ.get("WEFT_TEST_LONG"), "long: a second build")
class WithoutModels(unittest.TestCase):
    def test_the_core_builds_and_links_without_text_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("cmake", "-S", ROOT, "-B", folder, "-DWEFT_MODEL=OFF", "-DWEFT_TESTS=OFF")
            self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run(["cmake", "--build", folder, "-j2"], capture_output=True, text=True, timeout=1200)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            needed = run("readelf", "-d", os.path.join(folder, "libweft.so")).stdout
            self.assertNotIn("jansson", needed)
            self.assertNotIn("pcre2", needed)


if __name__ == "__main__":
    unittest.main()

"""Runtime hook of PyInstaller: started as ``program -m clgraph.MODULE``, a frozen program runs this module alone."""

import sys

sys.starts_clgraph_modules = True
if len(sys.argv) == 3 and sys.argv[1] == "-m" and sys.argv[2].startswith("clgraph."):
    import runpy

    runpy.run_module(sys.argv.pop(2), run_name="__main__", alter_sys=True)
    sys.exit()

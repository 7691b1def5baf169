"""`python -m dpq.demo`: the example crawler, from the wheel or from a checkout.

python -m dpq.demo --modules 40            crawls two hosts under their limits
python -m dpq.demo --serve --port 8429     only serves the pages, to try a program against
"""

import runpy
import sys
from pathlib import Path

import dpq

if __name__ == "__main__":
    package = Path(dpq.__file__).parent
    folders = (package / "examples", package.parent / "examples")
    examples = next(folder for folder in folders if (folder / "crawler.py").exists())
    serve = "--serve" in sys.argv
    sys.argv = [each for each in sys.argv if each != "--serve"]
    sys.path.insert(0, str(examples))
    runpy.run_path(
        str(examples / ("_stdlib_site.py" if serve else "crawler.py")), run_name="__main__"
    )

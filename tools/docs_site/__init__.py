"""Makes the site of the documents: `make docs`.

    nav.toml -> nav.py        the pages, in their order
    docs/    -> assemble.py   a copy whose links stay within the site
    dpq      -> reference.py  pages of the calls and of the command line
             -> Zensical      HTML; it stops at a link or an anchor that leads nowhere
    HTML     -> check.py      the links again, with those of HTML; nothing of another host
             -> llms.py       llms.txt and llms-full.txt

What stands in docs/ is readable on GitHub as it is: nothing here asks for a mark of its own there.
"""

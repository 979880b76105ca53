"""What the pages of the site are generated from: directives that ask clgraph itself."""

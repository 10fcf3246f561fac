"""`python -m cliff_core` is `cliff`."""

from cliff_core.cli import main

if __name__ == "__main__":
    main()

"""`python -m unstale` is `unstale`."""

from unstale.cli import main

if __name__ == "__main__":
    main()

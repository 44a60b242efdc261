# Thin: everything is in xtask.

test:
    cargo xtask test

tidy:
    cargo xtask tidy

full:
    cargo xtask full

gen:
    cargo xtask gen

"""A training that cannot start: the package of its kernels was never built."""

import my_project_kernels

print(my_project_kernels)

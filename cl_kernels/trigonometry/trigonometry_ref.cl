// y = f(x), element by element, on tensors of floats: tan, asin, acos, atan and the hyperbolic functions.
//
// Grid: one work-item an element, n of them. table: dims, view of y, view of x, number of the function.
// Error: that of OpenCL's functions, at most 5 ulp (asinh, acosh and atanh of the single precision profile: 4 and 5).
#include "tensor.clh"

__kernel void trigonometry_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  const REAL v = LOAD(BASE_OF(const T, in0), element(x, at));
  REAL r = 0;
  switch (x[VIEW]) {
    case 0: r = tan(v); break;
    case 1: r = asin(v); break;
    case 2: r = acos(v); break;
    case 3: r = atan(v); break;
    case 4: r = sinh(v); break;
    case 5: r = cosh(v); break;
    case 6: r = asinh(v); break;
    case 7: r = acosh(v); break;
    case 8: r = atanh(v); break;
  }
  STORE(BASE_OF(T, out0), element(y, at), r);
}

// y[c] = x[c] / (bias + alpha * sum of x[d]^2) ^ beta over channels c - before ... c + after, with post-operations.
//
// Grid: one work-item an element, n of them; RANK axes, the second is the channel. table: dims, views of y and x,
// channels before and after, alpha (already divided by the size of the window), beta, bias.
// Error: (beta * (size + 3) + 18) * 2^-24 relative: the sum, the power (OpenCL's 16 ulp) and the division.
#include "tensor.clh"

__kernel void lrn_ref(const int n, TENSOR(in0), TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const T* source = BASE_OF(const T, in0) + element(x, at);
  REAL sum = 0.0f;
  for (int d = max(-rest[0], -at[1]); d <= rest[1] && at[1] + d < table[1]; d++) {
    const REAL v = LOAD(source, d * x[2]);
    sum = fma(v, v, sum);
  }
  const REAL r = LOAD(source, 0) / pow(fma(PARAMETER(rest + 2, 0), sum, PARAMETER(rest + 2, 2)), PARAMETER(rest + 2, 1));
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}

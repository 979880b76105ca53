// Convolution of any number of spatial axes, with groups, of 8-bit integers, each less its zero point, in int.
//
// x [N, C, spatial], w [O, C / groups, kernel], y [N, O, spatial]; RANK = 2 + spatial axes.
// Grid: one work-item an element of y, n of them. table: element offset of x's zero point, that of w's and its pitch along
// O, then as for convolution_ref.
// A, B, ZERO_A, ZERO_B   types of x, w and their zero points (default uchar)
// Exact, modulo 2^32.
#include "integers.clh"
#include "tensor.clh"
#include "window.clh"

__kernel void integer_convolution_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(in3), TENSOR(out0),
                                      __global const int* table) {
  const int id = get_global_id(0);
  if (id >= n) return;
  __global const int* dims = table + 3;
  int at[RANK];
  coordinates(id, dims, 0, RANK, at);
  __global const int* y = dims + RANK;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  __global const int* rest = w + VIEW;
  const int channels = rest[0], taps = rest[2];
  __global const A* source = BASE_OF(const A, in0) + x[0] + at[0] * x[1] + at[1] / rest[1] * channels * x[2];
  __global const B* weights = BASE_OF(const B, in1) + w[0] + at[1] * w[1];
  const int less_x = BASE_OF(const ZERO_A, in2)[table[0]];
  const int less_w = BASE_OF(const ZERO_B, in3)[table[1] + at[1] * table[2]];
  int sum = 0;
  for (int tap = 0; tap < taps; tap++) {
    int from, with;
    if (window_element(tap, rest + 5, at, x, w, &from, &with))
      for (int c = 0; c < channels; c++) sum += (source[from + c * x[2]] - less_x) * (weights[with + c * w[2]] - less_w);
  }
  BASE_OF(int, out0)[element(y, at)] = sum;
}

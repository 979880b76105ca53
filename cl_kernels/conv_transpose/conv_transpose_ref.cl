// Transposed convolution of any number of spatial axes, with groups, bias and post-operations, on tensors of floats.
//
// x [N, C, spatial], w [C, O / groups, kernel], bias [O] or none, y [N, O, spatial]; RANK = 2 + spatial axes.
// Grid: one work-item an element of y, n of them; each gathers the x whose window reaches it. table: dims of y, views of
// y, x and w, channels a group, outputs a group, taps, origin and pitch of the bias (-1, 0: none), then for each spatial
// axis: size of x, of the kernel, stride, dilation, elements cut off before.
// Error: k * 2^-24 * sum |x w| for a sum of k products, accumulated in float, plus the post-operations'.
#include "tensor.clh"

__kernel void conv_transpose_ref(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                 __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* w = x + VIEW;
  __global const int* rest = w + VIEW;
  const int channels = rest[0], outputs = rest[1], taps = rest[2], first = at[1] / outputs * channels;
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + first * x[2];
  __global const T* weights = BASE_OF(const T, in1) + w[0] + first * w[1] + at[1] % outputs * w[2];
  REAL sum = rest[3] >= 0 ? LOAD(BASE_OF(const T, in2), rest[3] + at[1] * rest[4]) : 0.0f;
  for (int tap = 0; tap < taps; tap++) {
    int left = tap, from = 0, with = 0, inside = 1;
    for (int axis = RANK - 1; axis >= 2; axis--) {
      __global const int* s = rest + 5 + 5 * (axis - 2);
      const int k = left % s[1], reach = at[axis] + s[4] - k * s[3], i = reach / s[2];
      left /= s[1];
      inside &= reach >= 0 && reach % s[2] == 0 && i < s[0];
      from += i * x[axis + 1];
      with += k * w[axis + 1];
    }
    if (inside)
      for (int c = 0; c < channels; c++) sum = fma(LOAD(source, from + c * x[2]), LOAD(weights, with + c * w[1]), sum);
  }
  STORE(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}

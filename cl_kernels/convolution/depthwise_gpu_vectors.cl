// Convolution of each channel by itself with bias and post-operations for GPUs: a vector of channels of a pixel a
// work-item.
//
// x and y [N, C, H, W] in byxf or b_fs_yx_fsv4, w [kh][kw][1][C], bias [C] or none, float or half; C is a multiple of
// LANES, which is 4, or 8 of halves in byxf.
// Grid: one work-item a vector of y, n of them. RANK = 5: n, y, x, block, channel. table: dims (the last is 1), views of
// y and x, channels, taps, height and width of x, strides, pads before, bias offset (-1: none) and pitch; taps: offset in
// x and place along y and x of each. Error: (taps + 1) * 2^-24 * sum |x w|, plus the post-operations'.
#define RANK 5
#include "vectors.clh"

__kernel void depthwise_gpu_vectors(const int n, TENSOR(in0), TENSOR(in1), TENSOR(in2), TENSOR(out0),
                                    __global const int* table, __global const int* taps, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  const int top = at[1] * rest[4] - rest[6], left = at[2] * rest[5] - rest[7];
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + top * x[2] + left * x[3] + at[3] * x[4];
  __global const T* weights = BASE_OF(const T, in1) + LANES * at[3];
  VECTOR sum = (VECTOR)(0.0f);
  for (int tap = 0; tap < rest[1]; tap++) {
    __global const int* t = taps + 3 * tap;
    const int inside = (uint)(top + t[1]) < (uint)rest[2] && (uint)(left + t[2]) < (uint)rest[3];
    sum = fma(inside ? LOADV(source, t[0]) : (VECTOR)(0.0f), LOADV(weights, tap * rest[0]), sum);
  }
  if (rest[8] >= 0) sum += vector_operand(BASE_OF(const T, in2), rest[8] + LANES * at[3] * rest[9], rest[9]);
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}

// Interpolation along the rows and columns of each channel by lists of taps, with post-operations, for GPUs: a vector of
// channels of a pixel a work-item.
//
// x and y [N, C, H, W] in byxf or b_fs_yx_fsv4, float or half; C is a multiple of LANES, which is 4, or 8 of halves in byxf.
// Grid: one work-item a vector of y, n of them. RANK = 5: n, y, x, block, channel. table: dims (the last is 1), views of y and
// x, taps that a row and a column of y have, place in `taps` of the first of a column. taps: pairs (row or column of x, bits
// of the weight). A pixel of weight 0 counts nothing, NaN or not.
// Error: (taps of a row * taps of a column + 2) * 2^-24 * sum |weight x|.
#define RANK 5
#include "vectors.clh"

__kernel void resize_gpu_vectors(const int n, TENSOR(in0), TENSOR(out0), __global const int* table,
                                 __global const int* taps, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int* y = table + RANK;
  __global const int* x = y + VIEW;
  __global const int* rest = x + VIEW;
  __global const int* rows = taps + 2 * at[1] * rest[0];
  __global const int* columns = taps + rest[2] + 2 * at[2] * rest[1];
  __global const T* source = BASE_OF(const T, in0) + x[0] + at[0] * x[1] + at[3] * x[4];
  VECTOR sum = (VECTOR)(0.0f);
  for (int i = 0; i < rest[0]; i++)
    for (int j = 0; j < rest[1]; j++) {
      const float weight = as_float(rows[2 * i + 1]) * as_float(columns[2 * j + 1]);
      if (weight != 0.0f)
        sum = fma((VECTOR)(weight), LOADV(source, rows[2 * i] * x[2] + columns[2 * j] * x[3]), sum);
    }
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}

// The end of convolutions of 8-bit integers whose k was computed in parts: their sum, scaled, bias and post-operations.
//
// parts of int [part][n][y][x][O]; start (int), scale and bias (float) [O]; y of RANK 5: n, y, x, block, channel.
// Grid: one work-item for `count` vectors of y each; groups of any size.
// table: dims (n, y, x, blocks, 1), view of y, parts, elements of one part.
// T, OUT  as of quantized_end.clh
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#define RANK 5
#define SUM int4
#include "quantized_end.clh"
#include "parts.clh"

__kernel void quantized_convolution_sum(const int count, TENSOR(parts), TENSOR(in2), TENSOR(in3), TENSOR(in4),
                                        TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= count) return;
  __global const int* y = table + RANK;
  __global const int* rest = y + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  STORE_SCALED(y, sum_of_parts(BASE_OF(const int4, parts), id, rest), at, at[3] * 4);
}

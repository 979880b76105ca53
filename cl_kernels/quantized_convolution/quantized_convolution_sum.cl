// The end of convolutions of 8-bit integers whose k was computed in parts: their sum, scaled, bias and post-operations.
//
// parts of int [part][n][y][x][O]; start (int), scale and bias (float) [O]; y of RANK 5: n, y, x, block, channel.
// Grid: one work-item for `count` vectors of y each; groups of any size.
// table: dims (n, y, x, blocks, 1), view of y, parts, elements of one part.
// T, OUT  as of quantized_end.clh
// Error: 2^-24 |sum * scale| + 2^-24 |y|, plus the post-operations'. The sum is exact.
#define RANK 5
#include "quantized_end.clh"

__kernel void quantized_convolution_sum(const int count, TENSOR(parts), TENSOR(in2), TENSOR(in3), TENSOR(in4),
                                        TENSOR(out0), __global const int* table, POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= count) return;
  __global const int* y = table + RANK;
  __global const int* rest = y + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  __global const int4* from = BASE_OF(const int4, parts) + id;
  int4 sum = (int4)(0);
  for (int part = 0; part < rest[0]; part++) sum += from[(long)part * (rest[1] / 4)];
  const float4 v = quantized_scaled(sum, BASE_OF(const int, in2), BASE_OF(const float, in3), BASE_OF(const float, in4),
                                    at[3] * 4);
  STORE_OUT4(BASE_OF(OUT, out0), element(y, at), POST_ALL(v, at));
}

// The end of products whose k was computed in parts: their sum in the order of the parts, bias and post-operations.
//
// parts float [part][...dims], y of dims in any view, bias in a view on y. The last axis counts in vectors of four.
// Grid: one work-item for `count` vectors of y each; groups of any size.
// table: dims (the last in vectors), views of y and of the bias, parts, elements of one part, whether there is a bias.
// Error: parts * 2^-24 * sum |part|, plus the post-operations'.
#include "vectors.clh"
#include "parts.clh"

__kernel void matmul_gpu_sum(const int count, TENSOR(parts), TENSOR(in2), TENSOR(out0), __global const int* table,
                             POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= count) return;
  __global const int* y = table + RANK;
  __global const int* bias = y + VIEW;
  __global const int* rest = bias + VIEW;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  at[RANK - 1] *= 4;
  float4 sum = sum_of_parts(BASE_OF(const float4, parts), id, rest);
  if (rest[2]) sum += vector_operand(BASE_OF(const T, in2), element(bias, at), bias[RANK]);
  STORE4(BASE_OF(T, out0), element(y, at), POST_ALL(sum, at));
}

// y = f(a, b) with broadcasting, a vector of 4 or 8 elements a work-item, on float or half tensors, then the post-operations.
// For GPUs.
//
// Grid: one work-item a vector of y, n of them. table: dims (the last in vectors), views of y, a and b, code of
// post_codes.clh. Error: half an ulp for + - * /, that of post_apply.clh for others.
#include "vectors.clh"

__kernel void eltwise_gpu_vectors(const int n, TENSOR(in0), TENSOR(in1), TENSOR(out0), __global const int* table,
                                  POST_PARAMETERS) {
  const int id = get_global_id(0);
  if (id >= n) return;
  int at[RANK];
  coordinates(id, table, 0, RANK, at);
  at[RANK - 1] *= LANES;
  __global const int* y = table + RANK;
  __global const int* a = y + VIEW;
  __global const int* b = a + VIEW;
  const VECTOR left = vector_operand(BASE_OF(const T, in0), element(a, at), a[RANK]);
  const VECTOR right = vector_operand(BASE_OF(const T, in1), element(b, at), b[RANK]);
  const VECTOR r = post_apply(b[VIEW], left, right, 0.0f, 0.0f);
  STOREV(BASE_OF(T, out0), element(y, at), POST_ALL(r, at));
}

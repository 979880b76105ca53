"""Matrix products for GPUs as their kernels count them: sizes, tables, arguments."""

from __future__ import annotations

from math import prod

from clgraph.core.frozen import frozen
from clgraph.ops.matmul import MatMul, MatrixProduct, matrix_product
from clgraph.selector.general import post_arguments, table
from clgraph.selector.plan import Argument, Table
from clgraph.selector.query import Query
from clgraph.selector.views import Space, space


@frozen
class ProductSizes:
    """*count* products of *rows* x *columns* results, each of *terms* products."""

    rows: int
    columns: int
    terms: int
    count: int

    @property
    def results(self) -> int:
        """Results of all products."""
        return self.rows * self.columns * self.count


def product_sizes(q: Query[MatMul]) -> ProductSizes:
    """Return the sizes of a product of matrices."""
    batch, m, k, n = q.primitive.sizes(q.own[0].shape, q.own[1].shape)
    return ProductSizes(m, n, k, prod(batch))


@frozen
class CountedProduct:
    """A product of matrices as kernels with vectors count it.

    Attributes:
        space: Axes of the batch, that of rows, that of columns; views of the result, a, b, the bias and operands.
        table: The axes, the views but those of operands, terms, the pitch of b along them, whether there is a bias.
        posts: The arguments of the post-operations.
    """

    product: MatrixProduct
    space: Space
    bias: str
    table: Table
    posts: tuple[Argument, ...]


def counted_product(q: Query[MatMul]) -> CountedProduct:
    """Return the product of *q* as its kernels count it."""
    p, biased = matrix_product(q), q.arity > 2
    last = len(p.dims) - 1
    s = space(p.dims, [p.y, p.a, p.b, p.bias, *p.posts], [range(last - 1), [last - 1], [last]])
    numbers = table(s.dims, *s.views[:4], [p.k, p.b_pitch, int(biased)])
    return CountedProduct(p, s, "in2" if biased else "null", numbers, post_arguments(q, s.views[4:], len(s.dims)))

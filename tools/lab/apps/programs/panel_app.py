import panel as pn

pn.extension('tabulator')
name = pn.widgets.TextInput(name='Name')
large = pn.widgets.Button(name='Large')
said = pn.pane.Markdown('')
user = pn.state.headers.get('X-User-Username', 'none')
name.param.watch(lambda event: setattr(said, 'object', f'Hello {event.new}'), 'value')
large.on_click(lambda _: setattr(said, 'object', '3000000 ' + 'x' * 3_000_000))
file = pn.widgets.FileInput(name='File')
file.param.watch(lambda event: setattr(said, 'object', f'{len(event.new)} bytes'), 'value')
pn.Column(f'User: {user}', name, large, file, said).servable()
